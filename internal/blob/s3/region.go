package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"

	"etcdadm.io/internal/blob/remote"
)

// regionHeader is on S3's answer to whoever asks for a bucket, also on a refusal.
const regionHeader = "X-Amz-Bucket-Region"

// findRegion asks S3 where the bucket is. That takes no credentials, and every region knows it of all buckets of its partition.
func (s *Store) findRegion(ctx context.Context, client interface {
	Do(*http.Request) (*http.Response, error)
}) (string, error) {
	domain := "s3.amazonaws.com"
	if base := s.aws.Region; strings.HasPrefix(base, "cn-") {
		domain = "s3." + base + ".amazonaws.com.cn" // a partition of its own
	} else if strings.HasPrefix(base, "us-gov-") {
		domain = "s3." + base + ".amazonaws.com"
	}
	// Path style, since a name with dots is not in Amazon's certificate.
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, "https://"+domain+"/"+s.Place.Bucket, nil)
	if err != nil {
		return "", fmt.Errorf("find the bucket's region: %w", err)
	}
	response, err := client.Do(request)
	if err != nil {
		return "", fmt.Errorf("find the bucket's region: %w", err)
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 1<<10)) // a HEAD has no body; to keep the connection
	response.Body.Close()
	if region := response.Header.Get(regionHeader); region != "" {
		return region, nil
	}
	switch {
	case response.StatusCode == http.StatusNotFound:
		return "", s.Advised(remote.Answer(response.StatusCode, "NoSuchBucket", "there is no bucket "+s.Place.Bucket, nil),
			remote.AdviceBucket)
	case s.aws.Region != "":
		return s.aws.Region, nil
	}
	return "", s.Advised(errors.New("S3 does not tell the bucket's region"), "write region=REGION in the store's URL, or set "+envRegion)
}

var _ aws.CredentialsProvider = named{}
