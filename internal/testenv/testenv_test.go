package testenv

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// A test program sees nothing of what is around it, its child all that it is given, and
// a build all that was there.
func TestReduced(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("ETCDADM_TEST_SHOW") == "1" {
		os.Stdout.WriteString("now " + strings.Join(os.Environ(), "\nnow ") + "\nwas " + strings.Join(Outside(), "\nwas ") + "\n")
		return
	}
	show := func(env ...string) string {
		cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestReduced$")
		cmd.Env = append(env, "ETCDADM_TEST_SHOW=1", "PATH=/bin")
		said, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, said)
		}
		return string(said)
	}
	around := []string{"HOME=/home/someone", "ETCD_NAME=x", "AWS_PROFILE=prod", "ETCDADM_RELEASES=/opt/x", "https_proxy=http://127.0.0.1:1", "KUBECONFIG=/k", "ETCDADM_STORE=s3://prod"}
	said := show(around...)
	for _, pair := range around {
		if strings.Contains(said, "now "+pair) || !strings.Contains(said, "was "+pair) {
			t.Errorf("%s: want it outside only\n%s", pair, said)
		}
	}
	for _, want := range []string{"HOME=" + nowhere, "PATH=/bin", "GOPATH=/home/someone/go", "GOCACHE=/home/someone/.cache/go-build"} {
		if !strings.Contains(said, "now "+want+"\n") {
			t.Errorf("%s is not there\n%s", want, said)
		}
	}
	if said := show(cleaned+"=1", "ETCD_NAME=child"); !strings.Contains(said, "now ETCD_NAME=child\n") {
		t.Errorf("what a test gave its child is gone\n%s", said)
	}
}
