package main

import "debug/elf"

const ownMachine = elf.EM_AARCH64
