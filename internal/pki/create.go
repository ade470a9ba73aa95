package pki

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"time"

	"etcdadm.io/internal/duration"

	"etcdadm.io/internal/durable"
)

// AuthorityLifetime is how long an authority made by Create is valid.
const AuthorityLifetime = 10 * duration.Year

// clockSlack is how far back a certificate's validity begins, so that a peer whose clock is a
// little behind accepts it at once.
const clockSlack = 5 * time.Minute

// Create makes the authorities that dir lacks, for a playground or a first `etcdadm init`, and loads all three.
// It never overwrites: a certificate that is there is kept (with or without its key), and a key without a
// certificate, as a crash in between leaves it, gets one. Two processes may call it at once. dir is made with mode 0700, keys
// are 0600, certificates 0644.
func Create(dir string, now time.Time) (*Authorities, error) { return createOn(durable.OS(), dir, now) }

func createOn(disk durable.Disk, dir string, now time.Time) (*Authorities, error) {
	if err := disk.MakeDir(dir, modeDir); err != nil {
		return nil, &Error{Op: "create authorities", File: dir, Err: err}
	}
	for _, name := range []string{ManagerCA, PeersCA, ClientsCA} {
		if err := createAuthority(disk, dir, name, now); err != nil {
			return nil, err
		}
	}
	return Load(dir, now)
}

func createAuthority(disk durable.Disk, dir, name string, now time.Time) error {
	certFile, keyFile := filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	if _, err := os.Lstat(certFile); !errors.Is(err, fs.ErrNotExist) {
		return err // nil: it exists, and Load judges it
	}
	failed := func(file string, err error) error {
		return &Error{Op: "create authority " + name, File: file, Err: err}
	}
	key, err := keyAt(disk, keyFile)
	if err != nil {
		return failed(keyFile, err)
	}
	cert, err := selfSigned(name, key, now)
	if err != nil {
		return failed(certFile, err)
	}
	// A process that was faster made its certificate for the same key file, so either one will do.
	if err := disk.Create(certFile, encodeCertificates(cert), modePublic); err != nil && !errors.Is(err, fs.ErrExist) {
		return failed(certFile, err)
	}
	return nil
}

// keyAt returns the key in file, made durable there first when there was none.
func keyAt(disk durable.Disk, file string) (crypto.Signer, error) {
	key, err := newKey(KeyAny)
	if err != nil {
		return nil, err
	}
	data, err := encodeKey(key)
	if err != nil {
		return nil, err
	}
	err = disk.Create(file, data, modeKey)
	if !errors.Is(err, fs.ErrExist) {
		return key, err
	}
	if data, err = readFile(file); err != nil {
		return nil, err
	}
	return parseKey(data)
}

func selfSigned(name string, key crypto.Signer, now time.Time) (*x509.Certificate, error) {
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             now.Add(-clockSlack),
		NotAfter:              now.Add(AuthorityLifetime),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// newSerial is 128 random bits: unique without a register of what was issued. RFC 5280 wants it
// positive, so zero (which never comes) becomes one.
func newSerial() (*big.Int, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 128))
	if err == nil && serial.Sign() == 0 {
		serial.SetInt64(1)
	}
	return serial, err
}
