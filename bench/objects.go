package main

import (
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"sync"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
)

// objects has the database that is backed up and restored be one of so many
// objects as Kubernetes keeps them; 0: of large values.
var objects = flag.Int("objects", 0, "back up and restore this many objects of about 1 kB, as Kubernetes keeps them, instead of -size MB of large values")

const (
	objectsPerTxn = 100
	fillers       = 4 // transactions under way at a time
)

// fillObjects writes objects through a member.
func fillObjects(ctx context.Context, s seat, n int) error {
	v, err := s.open()
	if err != nil {
		return err
	}
	defer v.close()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var all sync.WaitGroup
	var next atomic.Int64
	for range fillers {
		all.Go(func() {
			for from := 0; ctx.Err() == nil; {
				if from = int(next.Add(objectsPerTxn)) - objectsPerTxn; from >= n {
					return
				}
				if _, err := v.kv.Txn(ctx, someObjects(from, min(from+objectsPerTxn, n))); err != nil {
					stop(fmt.Errorf("fill the database: %w", err))
				}
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

func someObjects(from, to int) *etcdserverpb.TxnRequest {
	var txn etcdserverpb.TxnRequest
	for i := from; i < to; i++ {
		put := &etcdserverpb.PutRequest{Key: objectKey(i), Value: objectValue(i)}
		txn.Success = append(txn.Success, &etcdserverpb.RequestOp{Request: &etcdserverpb.RequestOp_RequestPut{RequestPut: put}})
	}
	return &txn
}

func objectKey(i int) []byte {
	return fmt.Appendf(nil, "/registry/pods/namespace-%03d/workload-%07d", i%500, i)
}

// objectValue is what an API server might keep of a pod: mostly words that are
// the same in all of them, and some that are like nothing else.
func objectValue(i int) []byte {
	var unique [48]byte
	rand.Read(unique[:]) // never fails
	return fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"workload-%07[1]d","namespace":"namespace-%03[2]d",`+
		`"uid":"%[3]x","resourceVersion":"%[1]d","labels":{"app.kubernetes.io/name":"workload","pod-template-hash":"%[4]x"},`+
		`"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"workload-%[4]x","uid":"%[5]x","controller":true}]},`+
		`"spec":{"containers":[{"name":"main","image":"registry.example.com/team/workload@sha256:%[6]x","resources":{"requests":{"cpu":"100m","memory":"128Mi"},"limits":{"memory":"256Mi"}},`+
		`"env":[{"name":"PORT","value":"8080"}],"livenessProbe":{"httpGet":{"path":"/healthz","port":8080},"periodSeconds":10},"imagePullPolicy":"IfNotPresent"}],`+
		`"restartPolicy":"Always","nodeName":"node-%03[7]d","serviceAccountName":"default","schedulerName":"default-scheduler"},`+
		`"status":{"phase":"Running","podIP":"10.%[8]d.%[9]d.%[10]d","conditions":[{"type":"Ready","status":"True"},{"type":"ContainersReady","status":"True"}]}}`,
		i, i%500, unique[:16], unique[16:21], unique[21:37], unique[16:48], i%300, i>>16&255, i>>8&255, i&255)
}
