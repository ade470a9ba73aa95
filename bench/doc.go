// Command bench measures how long the daemons take for what a person would do
// by hand, beside a plain etcd that is driven by hand on the same machine in
// the same run:
//
//	go run ./bench [-n 5] [-quick] [-only REGEXP] [-json FILE] [-strict] [-v]
//
// What holds for every measure: both sides run the same etcd binaries with
// mutual TLS on the same disk; the runs of the two sides alternate; the clock
// is this program's, from the moment of the order or the kill to the moment at
// which an etcd client sees the outcome through the member in question. What a
// daemon says of itself only explains a number, it never makes one.
//
// Every process that a run starts is ended by its pid, and every wait has a
// deadline.
package main
