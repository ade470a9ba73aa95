package daemon

import (
	"net"
	"os"
	"path/filepath"
	"strings"

	"etcdadm.io/cluster"
)

// Where the external volume provider looks. Source: the predecessor's
// provider of this name, as kops uses it on bare metal.
const (
	externalDisks = "/mnt/disks"
	externalSeeds = "/etc/kubernetes/etcd-manager/seeds"
)

// cloudProviders are known by name and not in this release.
var cloudProviders = []string{"aws", "gce", "openstack", "do", "hetzner", "linode", "azure", "scaleway"}

// applyVolume fills in what the volume provider knows: data directory,
// address and host ID. It returns the directory of its seed files, if any.
func (c *Config) applyVolume() (seeds string, err error) {
	switch {
	case c.VolumeProvider == "":
		return "", nil
	case c.VolumeProvider == "external":
		return filepath.Join(c.Root, externalSeeds), c.applyExternal()
	}
	for _, known := range cloudProviders {
		if c.VolumeProvider == known {
			return "", mistake("mount the volume by other means and use --volume-provider=external, or --data-dir and --address", "--volume-provider=%s is not in this release", known)
		}
	}
	return "", mistake("known providers: external", "--volume-provider=%s is unknown", c.VolumeProvider)
}

// disks is where the external volume provider looks for the data volume.
func (c *Config) disks() string { return filepath.Join(c.Root, externalDisks) }

func (c *Config) applyExternal() error {
	if len(c.VolumeTags) == 0 {
		return mistake("the tag is what the directory's name begins with", "--volume-provider=external needs --volume-tag")
	}
	base := c.disks()
	entries, err := os.ReadDir(base)
	if err != nil {
		return &Error{Problem: "look for the data volume", Err: err, Advice: "mount it below " + externalDisks}
	}
	var found []string
	for _, e := range entries {
		for _, tag := range c.VolumeTags {
			if strings.HasPrefix(e.Name(), tag) {
				found = append(found, e.Name())
				break
			}
		}
	}
	switch len(found) {
	case 0:
		return mistake("mount the volume there", "no directory below %s begins with %s", base, strings.Join(c.VolumeTags, " or "))
	case 1:
	default:
		return mistake("leave one of them mounted", "more than one volume below %s fits: %s", base, strings.Join(found, ", "))
	}
	c.DataDir = filepath.Join(base, found[0], "mnt")
	if c.HostID == "" {
		c.HostID = cluster.HostID(found[0])
	}
	if c.Address == Default().Address {
		address, err := ownAddress()
		if err != nil {
			return err
		}
		c.Address = address
	}
	return nil
}

// ownAddress is the first address of this machine that others can reach.
func ownAddress() (string, error) {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return "", &Error{Problem: "find this host's address", Err: err, Advice: "say it: --address"}
	}
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() && n.IP.To4() != nil {
			return n.IP.String(), nil
		}
	}
	return "", mistake("say it: --address", "this host has no IPv4 address that others could reach")
}
