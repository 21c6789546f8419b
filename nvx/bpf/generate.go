package bpf

//go:generate go run ./generate
