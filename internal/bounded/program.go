package bounded

import (
	"context"
	"debug/elf"
	"errors"
	"os"
	"time"

	"etcdadm.io/internal/regular"
)

// programAnswers is how long the beginning of a program may take to be read: a disk that
// has to be woken up for it takes seconds.
const programAnswers = 10 * time.Second

// Program reads of a program what the kernel reads to begin it, and looks at the directories
// that its start needs, so that a hung mount is met here. The kernel would meet
// it while Go holds the lock of all starts of processes, and a thread that the next collection
// of garbage waits for: all of the program would stand still, without a bound and without a
// word (syscall.forkExec, which tells the scheduler nothing).
// A mount that begins to stand still just after that is met there all the same.
//
// Errors: a [SilentError], with the cause of ctx where that ended. Of a program that cannot
// be read for another reason, the start itself says what is wrong.
func Program(ctx context.Context, path string, dirs ...string) error {
	_, err := Do(ctx, path, programAnswers, func() (struct{}, error) { return struct{}{}, loaded(path) })
	for _, dir := range dirs {
		if silent(err) {
			break
		}
		_, err = Do(ctx, dir, programAnswers, func() (os.FileInfo, error) { return os.Stat(dir) })
	}
	if silent(err) {
		return err
	}
	return nil
}

func silent(err error) bool {
	var s *SilentError
	return errors.As(err, &s)
}

// loaded reads the head of a program, the end of each part that is mapped from its file,
// where the kernel writes zeros behind it, and the head of the loader that it names.
func loaded(path string) error {
	f, err := regular.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	program, err := elf.NewFile(f)
	if err != nil {
		return err // a script, or nothing that runs
	}
	var one [1]byte
	for _, part := range program.Progs {
		switch {
		case part.Filesz == 0:
		case part.Type == elf.PT_LOAD:
			if _, err := f.ReadAt(one[:], int64(part.Off+part.Filesz-1)); err != nil {
				return err
			}
		case part.Type == elf.PT_INTERP:
			if err := head(f, part); err != nil {
				return err
			}
		}
	}
	return nil
}

// head reads the head of the loader that this part of a program names.
func head(f *os.File, part *elf.Prog) error {
	const longestPath = 4096
	if part.Filesz > longestPath {
		return errors.New("no path is as long as its loader's")
	}
	name := make([]byte, part.Filesz)
	if _, err := f.ReadAt(name, int64(part.Off)); err != nil {
		return err
	}
	loader, err := regular.Open(string(name[:len(name)-1])) // it ends with a zero
	if err != nil {
		return err
	}
	defer loader.Close()
	var one [1]byte
	_, err = loader.ReadAt(one[:], 0)
	return err
}
