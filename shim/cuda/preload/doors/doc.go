// Package doors tests the preload library from the outside: it builds
// libxmsched.so, a fake driver and small host programs, and looks at what the
// hosts see with the library and without it. Nothing is in it but tests; what a
// host cannot see is tested in C, beside the code.
package doors

//go:generate go run ../internal/hookgen ../../../../hal/cuda/abi/facts ..
