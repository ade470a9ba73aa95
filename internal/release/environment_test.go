package release

import _ "etcdadm.io/internal/testenv" // no test goes by the environment of who runs it
