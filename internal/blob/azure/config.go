package azure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/remote"
)

// Environment variables, most of them those of Azure's own command line.
const (
	envAccount  = "AZURE_STORAGE_ACCOUNT"
	envKey      = "AZURE_STORAGE_KEY"
	envSAS      = "AZURE_STORAGE_SAS_TOKEN"
	envEndpoint = "AZURE_STORAGE_ENDPOINT"

	envClientSecret = "AZURE_CLIENT_SECRET"
)

// Credentials are the variables that say who asks: ours, and the SDK's.
var Credentials = []string{
	envKey, envSAS,
	"AZURE_TENANT_ID", "AZURE_CLIENT_ID", envClientSecret, "AZURE_CLIENT_CERTIFICATE_PATH", "AZURE_CLIENT_CERTIFICATE_PASSWORD",
	"AZURE_CLIENT_SEND_CERTIFICATE_CHAIN", "AZURE_FEDERATED_TOKEN_FILE", "AZURE_USERNAME", "AZURE_PASSWORD", "AZURE_TOKEN_CREDENTIALS",
}

// Options say how a store is used.
type Options = remote.Options

// config is what URL and environment say.
type config struct {
	place    remote.Location // of the container
	account  string
	endpoint string // of the account, without a slash at its end
	ca       string
	key      string
	sas      string // without a question mark
}

// Check tells whether Open would understand the URL.
func Check(storeURL string, opts Options) error {
	_, err := configure(storeURL, opts)
	return err
}

// Open prepares a store by its URL: azureblob://container/folder with the account in AZURE_STORAGE_ACCOUNT, or
// azureblob://account/container/folder where that is not set, or is the same account. Nothing is sent yet, and it need not be
// closed.
//
// The URL's parameters are endpoint, for the address of the account (or AZURE_STORAGE_ENDPOINT), and ca, a file with more
// authorities to trust. Credentials are AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN, or what Azure's other clients find: a
// service principal in the environment, a workload identity, the machine's managed identity, the user of az.
func Open(ctx context.Context, storeURL string, opts Options) (*Store, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c, err := configure(storeURL, opts)
	if err != nil {
		return nil, err
	}
	shown, _ := remote.Parse(storeURL, parameters...)
	s := &Store{Bucket: remote.Bucket{Place: c.place, URL: shown.String(), Refuse: refuse}}
	s.Driver = s
	if s.client, s.credential, err = connect(c, opts); err != nil {
		return nil, &blob.Error{Op: "open", Object: "store " + s.URL, Err: err, Advice: "check the AZURE_ variables"}
	}
	return s, nil
}

var parameters = []string{"endpoint", "ca"}

func configure(storeURL string, opts Options) (config, error) {
	place, err := opts.Parse(storeURL, parameters...)
	if err != nil {
		return config{}, err
	}
	refuse := func(err error, advice string) (config, error) {
		return config{}, &blob.Error{Op: "open", Object: "store " + place.String(), Err: err, Advice: advice}
	}
	c := config{place: place, account: opts.Getenv(envAccount), ca: place.Params["ca"], key: opts.Getenv(envKey), sas: strings.TrimPrefix(opts.Getenv(envSAS), "?")}
	if c.account == "" || c.account == place.Bucket {
		c.account = place.Bucket
		var folder string
		c.place.Bucket, folder, _ = strings.Cut(place.Prefix, "/")
		c.place.Prefix = folder
		if c.place.Bucket == "" {
			return refuse(errors.New("the storage account or the container was not said"),
				"set AZURE_STORAGE_ACCOUNT, or write azureblob://account/container/folder")
		}
	}
	endpoint := cmp.Or(place.Params["endpoint"], opts.Getenv(envEndpoint), "https://"+c.account+".blob.core.windows.net")
	u, err := remote.Endpoint(endpoint)
	if err != nil {
		return refuse(err, "write it like AZURE_STORAGE_ENDPOINT=https://account.blob.core.windows.net")
	}
	c.endpoint = strings.TrimSuffix(u.String(), "/")
	if c.key == "" && c.sas == "" && u.Scheme == "http" {
		return refuse(errors.New("tokens are not sent over http://"), "set AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN, or use https://")
	}
	if opts.Given != nil && c.key == "" && c.sas == "" && opts.Getenv(envClientSecret) == "" {
		return refuse(remote.ErrCredentials, "give AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN, or AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET")
	}
	return c, nil
}

func connect(c config, opts Options) (*container.Client, *named, error) {
	transport, err := opts.Transport(c.ca)
	if err != nil {
		return nil, nil, err
	}
	options := policy.ClientOptions{
		Transport: &http.Client{Transport: remote.Gate(transport)},
		// This package tries again itself, because it has to know which attempt may have taken effect.
		Retry:     policy.RetryOptions{MaxRetries: -1},
		Telemetry: policy.TelemetryOptions{Disabled: true},
	}
	url := c.endpoint + "/" + c.place.Bucket
	switch {
	case c.key != "":
		shared, err := container.NewSharedKeyCredential(c.account, c.key)
		if err != nil {
			return nil, nil, fmt.Errorf("%s is not a key", envKey) // the cause repeats it
		}
		client, err := container.NewClientWithSharedKeyCredential(url, shared, &container.ClientOptions{ClientOptions: options})
		return client, nil, err
	case c.sas != "":
		client, err := container.NewClientWithNoCredential(url+"?"+c.sas, &container.ClientOptions{ClientOptions: options})
		return client, nil, err
	}
	chain, err := identity(opts, azcore.ClientOptions{Transport: options.Transport, Telemetry: options.Telemetry})
	if err != nil {
		return nil, nil, remote.ErrCredentials // the cause may repeat what was given
	}
	credential := &named{TokenCredential: chain, turn: make(chan struct{}, 1)}
	client, err := container.NewClient(url, credential, &container.ClientOptions{ClientOptions: options})
	return client, credential, err
}

// identity is the service principal that is given, or who this process is for Azure.
func identity(opts Options, how azcore.ClientOptions) (azcore.TokenCredential, error) {
	if opts.Given != nil {
		return azidentity.NewClientSecretCredential(opts.Getenv("AZURE_TENANT_ID"), opts.Getenv("AZURE_CLIENT_ID"), opts.Getenv(envClientSecret),
			&azidentity.ClientSecretCredentialOptions{ClientOptions: how})
	}
	return azidentity.NewDefaultAzureCredential(&azidentity.DefaultAzureCredentialOptions{ClientOptions: how})
}

// tokenTimeout bounds the wait for an access token that the SDK asks for in the middle of a call: it has all of its calls wait for
// the one that asks, whatever their own contexts say. Before a call it is that which bounds the wait.
const tokenTimeout = 20 * time.Second

const (
	// tokenScope is for what a token is asked, by the SDK, too. Source: shared.TokenScope of azblob.
	tokenScope = "https://storage.azure.com/.default"
	// tokenLeft is what a token has to be good for, or the SDK asks for another one, with one of its calls. Source: azcore.
	tokenLeft = 5 * time.Minute
	// tokenOver is what it has to be good for, or a call waits for another one before it begins: then the SDK has all wait.
	tokenOver = 30 * time.Second
)

// named gives the lack of credentials a name, keeps the token that it was given, and waits for a service no longer than the context
// lasts. One question is under way at a time; it may not end, and no second one is begun before it has.
type named struct {
	azcore.TokenCredential
	turn chan struct{} // of capacity one: who asks has put something in
	mu   sync.Mutex    // guards what follows
	last azcore.AccessToken
}

// ready waits until there is a token, so that the SDK waits for none.
func (n *named) ready(ctx context.Context) error {
	if n == nil || n.left() > tokenOver {
		return nil
	}
	_, err := n.GetToken(ctx, policy.TokenRequestOptions{Scopes: []string{tokenScope}, EnableCAE: true})
	return err
}

func (n *named) left() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return time.Until(n.last.ExpiresOn)
}

// GetToken implements azcore.TokenCredential.
func (n *named) GetToken(ctx context.Context, options policy.TokenRequestOptions) (azcore.AccessToken, error) {
	n.mu.Lock()
	last := n.last
	n.mu.Unlock()
	refresh := !last.RefreshOn.IsZero() && time.Now().After(last.RefreshOn)
	if options.Claims == "" && options.TenantID == "" && !refresh && time.Until(last.ExpiresOn) > tokenLeft {
		return last, nil
	}
	within, cancel := context.WithTimeout(ctx, tokenTimeout)
	defer cancel()
	token, err := n.ask(within, options)
	if err != nil && ctx.Err() == nil {
		return azcore.AccessToken{}, fmt.Errorf("%w: %w", remote.ErrCredentials, err)
	}
	if err == nil {
		n.mu.Lock()
		n.last = token
		n.mu.Unlock()
	}
	return token, err
}

func (n *named) ask(ctx context.Context, options policy.TokenRequestOptions) (token azcore.AccessToken, err error) {
	select {
	case n.turn <- struct{}{}:
	case <-ctx.Done():
		return token, ctx.Err()
	}
	type answer struct {
		token azcore.AccessToken
		err   error
	}
	ended := make(chan answer, 1)
	go func() {
		token, err := n.TokenCredential.GetToken(ctx, options)
		<-n.turn
		ended <- answer{token, err}
	}()
	select {
	case a := <-ended:
		return a.token, a.err
	case <-ctx.Done():
		return token, ctx.Err()
	}
}
