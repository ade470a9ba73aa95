package rig

import (
	"maps"
)

// InEnvFile are secrets that stand in a daemon's environment file: for the store,
// and for other programs, as a pod's variables are.
var InEnvFile = map[string]string{
	"AZURE_STORAGE_SAS_TOKEN":  "sv=1&sig=planted-signature-of-azure",
	"AZURE_CLIENT_SECRET":      "planted-secret-of-a-principal",
	"HTTPS_PROXY":              "http://user:planted-word-of-a-proxy@127.0.0.1:1",
	"ETCD_ROOT_PASSWORD":       "planted-password-of-an-image",
	"ETCD_BACKUP_URL":          "https://user:planted-word-in-a-url@127.0.0.1:1/",
	"ETCD_S3_ACCESS_KEY":       "planted-key-among-etcds",
	"ETCD_MANAGER_HOOK_SECRET": "planted-secret-of-a-hook",
}

// SecretsOf are what was planted, and what the cluster has of its own.
func (c *Cluster) SecretsOf(h *Host, tls bool) map[string][]byte {
	c.T.Helper()
	all := map[string][]byte{"etcd's password": []byte(RootPassword), "whatever was planted": []byte("planted-word"), "a signature": []byte("planted-signature"), "a key": []byte("planted-secret")}
	if tls {
		maps.Copy(all, c.Secrets(h))
	}
	for _, set := range []map[string]string{Planted, InEnvFile} {
		for name, value := range set {
			all[name] = []byte(value)
		}
	}
	return all
}
