package cli

// reach is the flags by which a command finds the daemons.
type reach struct {
	dataDir     string
	endpoints   []string
	clusterName string
	credentials string
	output      string
}
