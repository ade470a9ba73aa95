// Package backup is the backup format as values: the names of backups, the two
// small files beside each one, when the next is due and which ones may go.
//
// The format is project-neutral: kubernetes-sigs/etcd-manager lists and restores
// what is written here, and the other way round. A backup is a folder of the
// store, named by a [Name], with three objects:
//
//	_etcd_backup.meta        [Meta], in the shape that both programs know, written last: the backup exists if and only if it does
//	_etcdadm_backup.json     [Manifest], everything that has no place in the meta; missing in backups of others
//	etcd.backup.gz           the snapshot; under another name when it is not plain gzip, see [Encoding]
//
// Everything here is pure: values in, values out. Four laws hold for [Expire]:
//
//   - a set of backups that is not empty never becomes empty: the newest stays, and the newest that was proven stays;
//   - expiring what was expired removes nothing more at the same time;
//   - how often it is run does not change what is left in the end;
//   - another reason to keep a backup never makes a different one go.
package backup
