package token

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

var now = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

func minted(t *testing.T) Token {
	t.Helper()
	tok, err := Mint(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func record(tok Token) Record {
	return Record{ID: tok.ID, Hash: tok.Hash(), Created: now, Expires: now.Add(DefaultLife)}
}

func TestMintAndParse(t *testing.T) {
	seen := map[string]bool{}
	for range 200 {
		tok := minted(t)
		text := tok.Reveal()
		got, err := Parse("  " + text + "\n")
		if err != nil || got != tok {
			t.Fatalf("%v, %v", got, err)
		}
		if id, secret, _ := strings.Cut(text, "."); len(id) != 6 || len(secret)*5 < 128 || seen[id] || seen[secret] {
			t.Fatalf("ID of %d characters, secret of %d", len(id), len(secret))
		} else {
			seen[id], seen[secret] = true, true
		}
	}
	if _, err := Mint(strings.NewReader("short")); err == nil {
		t.Error("made of too little randomness")
	}
}

func TestParseRefuses(t *testing.T) {
	good := minted(t).Reveal()
	for _, text := range []string{"", ".", "abc", good[:len(good)-1], good + "a", strings.ToUpper(good), "A" + good[1:], strings.Replace(good, ".", ":", 1), good[:7] + "1" + good[8:]} {
		_, err := Parse(text)
		if !errors.Is(err, ErrMalformed) {
			t.Errorf("%d characters: %v", len(text), err)
		} else if _, secret, _ := strings.Cut(text, "."); len(secret) > 8 && strings.Contains(err.Error(), secret[:8]) {
			t.Errorf("the error shows the secret: %v", err)
		}
	}
}

func TestNothingShowsTheSecret(t *testing.T) {
	tok := minted(t)
	data, err := json.Marshal(map[string]any{"token": tok, "record": record(tok)})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{fmt.Sprint(tok), fmt.Sprintf("%v %+v %#v %s %q", tok, tok, tok, tok, tok), fmt.Sprintf("%+v", record(tok)), string(data)} {
		if strings.Contains(text, tok.secret) {
			t.Errorf("shows the secret: %s", text)
		}
	}
}

func TestCheck(t *testing.T) {
	tok := minted(t)
	wrong := Token{ID: tok.ID, secret: minted(t).secret}
	use := func(try string) Use { return Use{Host: "b", At: now, Try: try} }
	fresh := record(tok)
	single := fresh
	single.Uses = 1
	used := single.With(use("one"))
	revoked := fresh.With(use("one"))
	revoked.Revoked = now
	for name, c := range map[string]struct {
		r     *Record
		tok   Token
		try   string
		at    time.Time
		again bool
		want  error
	}{
		"good":                         {&fresh, tok, "one", now, false, nil},
		"unknown":                      {nil, tok, "one", now, false, ErrUnknown},
		"wrong":                        {&fresh, wrong, "one", now, false, ErrWrong},
		"wrong, of one that is over":   {&revoked, wrong, "one", now, false, ErrWrong},
		"at its last moment":           {&fresh, tok, "one", now.Add(DefaultLife - 1), false, nil},
		"expired":                      {&fresh, tok, "one", now.Add(DefaultLife), false, ErrExpired},
		"for one, and new":             {&single, tok, "one", now, false, nil},
		"for one, and used":            {&used, tok, "two", now, false, ErrUsedUp},
		"for one, and used without":    {&used, tok, "", now, false, ErrUsedUp},
		"for one, and asked again":     {&used, tok, "one", now, true, nil},
		"asked again when it is over":  {&used, tok, "one", now.Add(DefaultLife), true, ErrExpired},
		"revoked, asked for once more": {&revoked, tok, "one", now, true, ErrRevoked},
	} {
		again, err := Check(c.r, c.tok, c.try, c.at)
		if again != c.again || !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%s: %v, %v", name, again, err)
		}
		if err != nil && strings.Contains(err.Error(), tok.secret) {
			t.Errorf("%s: the error shows the secret", name)
		}
	}
	if len(single.Used) != 0 {
		t.Error("With changed the record that it was given")
	}
}

func TestStates(t *testing.T) {
	r := record(minted(t))
	if r.State(now) != Valid || !r.Over(now).IsZero() {
		t.Errorf("%s, %s", r.State(now), r.Over(now))
	}
	r.Uses = 1
	r = r.With(Use{Host: "b", At: now.Add(time.Minute)})
	if r.State(now) != UsedUp || r.Over(now) != now.Add(time.Minute) {
		t.Errorf("%s, %s", r.State(now), r.Over(now))
	}
	if at := now.Add(2 * DefaultLife); r.State(at) != Expired || r.Over(at) != r.Expires {
		t.Errorf("%s, %s", r.State(at), r.Over(at))
	}
	r.Revoked = now
	if r.State(now) != Revoked || r.Over(now) != now {
		t.Errorf("%s, %s", r.State(now), r.Over(now))
	}
	many := record(minted(t))
	for range MaxKeptUses + 5 {
		many = many.With(Use{Host: "b", At: now})
	}
	if len(many.Used) != MaxKeptUses {
		t.Errorf("%d uses are kept", len(many.Used))
	}
}

func FuzzParse(f *testing.F) {
	tok, err := Mint(bytes.NewReader(bytes.Repeat([]byte{7}, 64)))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(tok.Reveal())
	f.Add("abcdef.")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := Parse(text)
		if (err == nil) == errors.Is(err, ErrMalformed) {
			t.Fatalf("%v", err)
		}
		if err == nil && got.Reveal() != strings.TrimSpace(text) {
			t.Fatalf("%q is read as another token", text)
		}
	})
}
