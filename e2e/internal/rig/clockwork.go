package rig

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"
)

// The wall clock of one running daemon is moved, and nobody else's. A Go program
// on Linux asks the kernel's vDSO for the time, through one variable of the
// runtime that points to its clock_gettime. That is made to point to a few
// instructions which ask the same and add so many seconds to the wall clock;
// the monotonic one is left as it is, as when a machine's clock is set. They lie
// where a function of the runtime was that runs only at the start of a program.
//
// So the program under test is the one that ships, and knows nothing of it.
const (
	clockFunction = "runtime.vdsoClockgettimeSym"
	clockRoom     = "runtime.check"
)

// clockCode is: clock_gettime(clock, time); if clock is the wall clock, time.seconds += offset.
var clockCode = struct {
	head, tail []byte
}{
	head: []byte{
		0x57,                   // push rdi
		0x56,                   // push rsi
		0x48, 0x83, 0xEC, 0x08, // sub rsp, 8
		0x48, 0xB8, // mov rax, the real one
	},
	tail: []byte{
		0xFF, 0xD0, // call rax
		0x48, 0x83, 0xC4, 0x08, // add rsp, 8
		0x5E,       // pop rsi
		0x5F,       // pop rdi
		0x85, 0xFF, // test edi, edi
		0x75, 0x0A, // jne over the next two
		0x48, 0x8B, 0x0D, 0x05, 0x00, 0x00, 0x00, // mov rcx, [rip+5]
		0x48, 0x01, 0x0E, // add [rsi], rcx
		0xC3, // ret
		0x90, // so that the offset behind this is aligned, and changes at once
	},
}

// SetClock puts the wall clock of a host's running daemon ahead of the real one,
// or behind it. A daemon that starts has the real one.
func (h *Host) SetClock(ahead time.Duration) {
	h.C.T.Helper()
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		h.C.T.Skip("SKIPPED, the clock of a process is moved on linux/amd64 only")
	}
	if err := setClock(h.Cmd.Process.Pid, ahead); err != nil {
		h.C.T.Fatalf("set the clock of the daemon of host %d: %v", h.N, err)
	}
}

func setClock(pid int, ahead time.Duration) error {
	exe := fmt.Sprintf("/proc/%d/exe", pid)
	program, err := elf.Open(exe)
	if err != nil {
		return err
	}
	defer program.Close()
	symbols, err := program.Symbols()
	if err != nil {
		return fmt.Errorf("read the symbols of %s: %w", exe, err)
	}
	symbol := func(name string) uint64 {
		i := slices.IndexFunc(symbols, func(s elf.Symbol) bool { return s.Name == name })
		if i < 0 {
			err = errors.Join(err, fmt.Errorf("%s has no symbol %s", exe, name))
			return 0
		}
		return symbols[i].Value
	}
	function, room := symbol(clockFunction), symbol(clockRoom)
	if err != nil {
		return err
	}
	if program.Type != elf.ET_EXEC {
		return fmt.Errorf("%s is of type %s, and its addresses are not known", exe, program.Type)
	}
	memory, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer memory.Close()
	word := make([]byte, 8)
	if _, err := memory.ReadAt(word, int64(function)); err != nil {
		return err
	}
	is := binary.LittleEndian.Uint64(word)
	if is == 0 {
		return errors.New("it does not ask the vDSO for the time")
	}
	code := slices.Concat(clockCode.head, word, clockCode.tail)
	offset := int64(room) + int64(len(code))
	seconds := binary.LittleEndian.AppendUint64(nil, uint64(int64(ahead/time.Second)))
	if is == room { // it was moved before
		_, err := memory.WriteAt(seconds, offset)
		return err
	}
	if _, err := memory.WriteAt(append(code, seconds...), int64(room)); err != nil {
		return err
	}
	_, err = memory.WriteAt(binary.LittleEndian.AppendUint64(nil, room), int64(function))
	return err
}
