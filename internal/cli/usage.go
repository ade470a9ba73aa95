package cli

import (
	"flag"
	"fmt"
	"io"
)

func printUsage(w io.Writer, text string, fs *flag.FlagSet) {
	fmt.Fprint(w, text)
	shown := flag.NewFlagSet("", flag.ContinueOnError)
	shown.SetOutput(w)
	fs.VisitAll(func(f *flag.Flag) {
		switch f.Value.(type) {
		case ignored, anything: // they only get in the reader's way
		default:
			shown.Var(f.Value, f.Name, f.Usage)
			shown.Lookup(f.Name).DefValue = f.DefValue
		}
	})
	shown.PrintDefaults()
}
