package etcd

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
)

// quotaGauge is what etcd's metrics name it, since 3.3. Source: storage/quota.go of
// 3.5.35, 3.6.16 and 3.7.3, etcdserver/quota.go of 3.4.25.
const quotaGauge = "etcd_server_quota_backend_bytes"

// maxMetrics is far more than a member's metrics are, in bytes.
const maxMetrics = 4 << 20

// MeasuredQuota is to how many bytes a member holds its database, by the metrics that
// it serves beside its clients: releases before 3.6 tell it nowhere else. Negative:
// there is no quota. The first endpoint that tells it counts. It is an error where
// none does, as with --listen-client-http-urls, or behind something that passes gRPC
// only.
func MeasuredQuota(ctx context.Context, cfg Config) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	config := cfg.TLS
	if config == nil {
		config = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	client := plainHTTP(Config{PeerTLS: config})
	var failed []error
	for _, endpoint := range cfg.Endpoints {
		quota, err := measuredQuota(ctx, client, endpoint)
		if err == nil {
			return quota, nil
		}
		failed = append(failed, err)
	}
	return 0, fmt.Errorf("read the quota from etcd's metrics: %w", errors.Join(failed...))
}

func measuredQuota(ctx context.Context, client *http.Client, endpoint string) (int64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(endpoint, "/")+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	reply, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	defer reply.Body.Close()
	if reply.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%s/metrics: etcd answers %s", endpoint, reply.Status)
	}
	lines := bufio.NewScanner(io.LimitReader(reply.Body, maxMetrics))
	for lines.Scan() {
		value, found := strings.CutPrefix(lines.Text(), quotaGauge+" ")
		if !found {
			continue
		}
		quota, err := strconv.ParseFloat(strings.TrimSpace(value), 64) // as Prometheus writes it: 8.589934592e+09
		if err != nil || quota == 0 || math.IsNaN(quota) || quota < -1<<62 || quota > 1<<62 {
			return 0, fmt.Errorf("%s/metrics: %s is %.40q", endpoint, quotaGauge, value)
		}
		return int64(quota), nil
	}
	if err := lines.Err(); err != nil {
		return 0, fmt.Errorf("%s/metrics: %w", endpoint, err)
	}
	return 0, fmt.Errorf("%s/metrics has no %s", endpoint, quotaGauge)
}
