// Package xserverv1 is the generated wire format of the daemon's control plane.
// Nothing is written here by hand but xserver.proto.
package xserverv1

//go:generate protoc --proto_path=../../.. --go_out=../../.. --go_opt=paths=source_relative --go-grpc_out=../../.. --go-grpc_opt=paths=source_relative xserver/api/v1/xserver.proto
