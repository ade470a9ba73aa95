package console

import "testing"

// On an image of another machine, or where an endpoint is a name, nobody is told anything.
func TestOnThisMachine(t *testing.T) {
	for endpoint, want := range map[string][2]bool{
		"127.0.0.1:8000": {true, true}, "[::1]:8000": {true, true}, "192.0.2.7:8000": {false, true},
		"host.example:8000": {false, false}, "0.0.0.0:8000": {false, false}, "192.0.2.7": {false, false}, "": {false, false},
	} {
		if own, known := OnThisMachine(endpoint); own != want[0] || known != want[1] {
			t.Errorf("%q: %t, %t, want %v", endpoint, own, known, want)
		}
	}
}
