package main

import "debug/elf"

const ownMachine = elf.EM_X86_64
