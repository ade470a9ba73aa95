package s3

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/logging"

	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/remote"
	"etcdadm.io/internal/regular"
)

// Environment variables that kops and etcd-manager use for S3-compatible stores.
const (
	envEndpoint = "S3_ENDPOINT"
	envRegion   = "S3_REGION"
	envKey      = "S3_ACCESS_KEY_ID"
	envSecret   = "S3_SECRET_ACCESS_KEY"
)

// Credentials are the variables that say who asks: ours, and the SDK's.
var Credentials = []string{
	envKey, envSecret,
	"AWS_ACCESS_KEY_ID", "AWS_ACCESS_KEY", "AWS_SECRET_ACCESS_KEY", "AWS_SECRET_KEY", "AWS_SESSION_TOKEN", "AWS_SHARED_CREDENTIALS_FILE",
	"AWS_ROLE_ARN", "AWS_ROLE_SESSION_NAME", "AWS_WEB_IDENTITY_TOKEN_FILE",
	"AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_AUTHORIZATION_TOKEN", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
}

// defaultRegion signs requests to servers that have no regions.
const defaultRegion = "us-east-1"

// patience is how many times longer than others the request may take that makes one object of all parts.
const patience = 10

// Service is one of the schemes that name an S3-compatible service.
type Service struct {
	Name string
	// endpoint is the URL of the service in a region, with %s for the region; empty for S3 itself, which the SDK knows.
	endpoint string
}

// Services by their schemes.
var Services = map[string]Service{
	"s3":     {Name: "Amazon S3"},
	"do":     {"DigitalOcean Spaces", "https://%s.digitaloceanspaces.com"},
	"linode": {"Linode Object Storage", "https://%s.linodeobjects.com"},
	"hos":    {"Hetzner Object Storage", "https://%s.your-objectstorage.com"},
	"scw":    {"Scaleway Object Storage", "https://s3.%s.scw.cloud"},
}

// Options say how a store is used.
type Options = remote.Options

// config is what URL and environment say.
type config struct {
	endpoint string // empty: Amazon's, or what the SDK's configuration names
	region   string // empty: to be found out
	virtual  bool   // the bucket is a part of the server's name, also of another server than Amazon's
	ca       string
	key      string // with secret; empty: the SDK's chain
	secret   string
	session  string // of a given key that does not last
}

// parameters are those that a store's URL may have.
var parameters = []string{"endpoint", "region", "ca", "style"}

// Check tells whether Open would understand the URL.
func Check(storeURL string, opts Options) error {
	place, err := opts.Parse(storeURL, parameters...)
	if err == nil {
		_, err = configure(place, opts)
	}
	return err
}

// Open prepares a store by its URL, s3://bucket/folder or that of one of Services. Nothing is sent yet, and it need not be closed.
//
// The URL's parameters endpoint, region and ca come before S3_ENDPOINT, S3_REGION and AWS_CA_BUNDLE; style is path, or virtual for a
// server that wants the bucket in its name, which an endpoint that begins with the bucket's name says, too. Credentials are those of
// S3_ACCESS_KEY_ID and S3_SECRET_ACCESS_KEY, or what the AWS SDK finds. Without a region, Amazon is asked for the bucket's.
func Open(ctx context.Context, storeURL string, opts Options) (*Store, error) {
	place, err := opts.Parse(storeURL, parameters...)
	if err != nil {
		return nil, err
	}
	c, err := configure(place, opts)
	if err != nil {
		return nil, err
	}
	s := &Store{Bucket: remote.Bucket{Place: place, URL: place.String()}, config: c}
	s.Driver = s
	if opts.Stall <= 0 {
		opts.Stall = remote.Stall
	}
	var slow aws.Config
	if opts.Given == nil {
		err = checkFiles()
	}
	if err == nil {
		slow, err = load(ctx, c, opts, patience)
	}
	if err == nil {
		s.patient = slow.HTTPClient
		s.aws, err = load(ctx, c, opts, 1)
	}
	if err != nil {
		return nil, &blob.Error{Op: "open", Object: "store " + s.String(), Err: err, Advice: "check the AWS_ variables and the files that they name"}
	}
	return s, nil
}

func configure(place remote.Location, opts Options) (config, error) {
	refuse := func(err error, advice string) (config, error) {
		return config{}, &blob.Error{Op: "open", Object: "store " + place.String(), Err: err, Advice: advice}
	}
	c := config{
		endpoint: cmp.Or(place.Params["endpoint"], opts.Getenv(envEndpoint)),
		region:   cmp.Or(place.Params["region"], opts.Getenv(envRegion)),
		ca:       place.Params["ca"],
		key:      opts.Getenv(envKey),
		secret:   opts.Getenv(envSecret),
	}
	if opts.Given != nil {
		c.giveSDK(opts)
	}
	style := place.Params["style"]
	if style != "" && style != "path" && style != "virtual" {
		return refuse(fmt.Errorf("style=%s is not known", style), "write style=virtual for BUCKET.SERVER, or style=path for SERVER/BUCKET")
	}
	service := Services[place.Scheme]
	if c.endpoint == "" && service.endpoint != "" {
		if c.region == "" {
			return refuse(fmt.Errorf("where in %s the bucket is was not said", service.Name),
				"set S3_ENDPOINT, or S3_REGION, or write region=REGION in the store's URL")
		}
		if strings.ContainsAny(c.region, "/?#@:\\%") { // it would make another server of the name
			return refuse(errors.New("the region can not be a part of a server's name"), "write it like region=fra1")
		}
		c.endpoint = fmt.Sprintf(service.endpoint, c.region)
	}
	if c.endpoint != "" {
		u, err := remote.Endpoint(c.endpoint)
		if err != nil {
			return refuse(err, "write it like S3_ENDPOINT=https://s3.example.com")
		}
		// A server may have the name of a bucket: minio.example.com is no bucket of
		// example.com, and backups.s3.example.com is one of s3.example.com.
		// It is guessed of the URL's endpoint only: of the environment's the predecessor,
		// whose settings those are, always asks by the path.
		server, named := strings.CutPrefix(u.Host, place.Bucket+".")
		guess := style == "" && place.Params["endpoint"] != "" && named && strings.Count(server, ".") >= 2
		c.virtual = style == "virtual" || guess
		if c.virtual && named {
			u.Host = server // the SDK puts the bucket in front
		}
		c.endpoint = u.String()
	}
	if (c.key == "") != (c.secret == "") {
		return refuse(errors.New("of S3_ACCESS_KEY_ID and S3_SECRET_ACCESS_KEY only one is set"), "set both, or neither")
	}
	if opts.Given != nil && c.key == "" {
		return refuse(remote.ErrCredentials, "give S3_ACCESS_KEY_ID and S3_SECRET_ACCESS_KEY, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
	}
	return c, nil
}

// giveSDK takes from what is given what the SDK else takes from the environment.
func (c *config) giveSDK(opts Options) {
	c.endpoint = cmp.Or(c.endpoint, opts.Getenv("AWS_ENDPOINT_URL_S3"), opts.Getenv("AWS_ENDPOINT_URL"))
	c.region = cmp.Or(c.region, opts.Getenv("AWS_REGION"), opts.Getenv("AWS_DEFAULT_REGION"))
	if c.key == "" && c.secret == "" {
		c.key, c.secret, c.session = opts.Getenv("AWS_ACCESS_KEY_ID"), opts.Getenv("AWS_SECRET_ACCESS_KEY"), opts.Getenv("AWS_SESSION_TOKEN")
	}
}

// checkFiles refuses what is no file where the SDK opens one by itself: its open of a pipe waits until somebody writes there, and its
// read of a device may have no end. Whether it needs one that is not there, or that cannot be read, is for the SDK to say.
func checkFiles() error {
	for _, path := range []string{
		cmp.Or(os.Getenv("AWS_CONFIG_FILE"), awsconfig.DefaultSharedConfigFilename()),
		cmp.Or(os.Getenv("AWS_SHARED_CREDENTIALS_FILE"), awsconfig.DefaultSharedCredentialsFilename()),
		os.Getenv("AWS_CA_BUNDLE"),
	} {
		if path == "" {
			continue
		}
		if _, err := regular.Read(path, remote.MaxCABundle); errors.Is(err, regular.ErrNotRegular) || errors.Is(err, regular.ErrTooLarge) {
			return fmt.Errorf("load the AWS configuration: %w", err)
		}
	}
	return nil
}

// load reads the SDK's configuration: environment and files, or neither where all is given. Credentials are got when they are
// needed. A connection may move no byte for times × opts.Stall before it is given up.
func load(ctx context.Context, c config, opts Options, times time.Duration) (aws.Config, error) {
	var trust error
	client := awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		remote.Tune(t, times*opts.Stall)
		trust = opts.Trust(t, c.ca)
	})
	if trust != nil {
		return aws.Config{}, trust
	}
	choices := []func(*awsconfig.LoadOptions) error{
		awsconfig.WithHTTPClient(client),
		awsconfig.WithLogger(logging.Nop{}),
	}
	if c.key != "" {
		choices = append(choices, awsconfig.WithCredentialsProvider(static(c)))
	}
	loaded := aws.Config{HTTPClient: client, Logger: logging.Nop{}, Credentials: static(c)}
	if opts.Given == nil {
		var err error
		if loaded, err = awsconfig.LoadDefaultConfig(ctx, choices...); err != nil {
			return aws.Config{}, fmt.Errorf("load the AWS configuration: %w", err)
		}
	}
	loaded.Credentials = named{loaded.Credentials}
	loaded.HTTPClient = asking{remote.Gate(carrying{loaded.HTTPClient})}
	loaded.Retryer = func() aws.Retryer { return aws.NopRetryer{} }
	return loaded, nil
}

func static(c config) aws.CredentialsProvider {
	return credentials.NewStaticCredentialsProvider(c.key, c.secret, c.session)
}

// asking is a transport as the SDK wants its client: redirects are for the SDK's own, below it.
type asking struct{ http.RoundTripper }

// Do implements aws.HTTPClient.
func (a asking) Do(r *http.Request) (*http.Response, error) { return a.RoundTrip(r) }

// carrying is the SDK's client as a transport.
type carrying struct{ aws.HTTPClient }

// RoundTrip implements http.RoundTripper.
func (c carrying) RoundTrip(r *http.Request) (*http.Response, error) { return c.Do(r) }

// named gives the lack of credentials a name: the SDK's errors tell it only by their text.
type named struct{ aws.CredentialsProvider }

// Retrieve implements aws.CredentialsProvider.
func (n named) Retrieve(ctx context.Context) (aws.Credentials, error) {
	if n.CredentialsProvider == nil {
		return aws.Credentials{}, remote.ErrCredentials
	}
	c, err := n.CredentialsProvider.Retrieve(ctx)
	if err != nil && ctx.Err() == nil {
		return aws.Credentials{}, fmt.Errorf("%w: %w", remote.ErrCredentials, err)
	}
	return c, err
}

// connect gives the client, once it is known where the bucket is.
func (s *Store) connect(ctx context.Context) (*s3.Client, error) {
	s.mu.Lock()
	client := s.client
	s.mu.Unlock()
	if client != nil {
		return client, nil
	}
	probe := s.newClient(cmp.Or(s.config.region, s.aws.Region, defaultRegion))
	if s.config.region == "" && !custom(probe) {
		region, err := s.findRegion(ctx, probe.Options().HTTPClient)
		if err != nil {
			return nil, err
		}
		probe = s.newClient(region)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client == nil {
		s.client = probe
	}
	return s.client, nil
}

// custom tells whether a client talks to another server than Amazon's.
func custom(client *s3.Client) bool { return client.Options().BaseEndpoint != nil }

func (s *Store) newClient(region string) *s3.Client {
	return s3.NewFromConfig(s.aws, func(o *s3.Options) {
		o.Region = region
		if s.config.endpoint != "" {
			o.BaseEndpoint = aws.String(s.config.endpoint)
		}
		if o.BaseEndpoint != nil {
			// Servers of others have seldom a name for each bucket, and do not know all of S3's checksums.
			o.UsePathStyle = !s.config.virtual
			o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
			o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
		}
		o.DisableLogOutputChecksumValidationSkipped = true
	})
}
