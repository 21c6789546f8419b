/*
 * Places where a program that runs under this library can be looked at from
 * outside, by bpf programs and tracers (nvx/bpf, `xcli observe`). A place is one
 * 5-byte no-operation in the hook itself, and a note in the file that says where
 * it is and in which registers its three values are: nothing else is done, so
 * nobody pays for what nobody looks at. The kernel exchanges such an instruction
 * by a call, which is 80 times cheaper than a breakpoint on an instruction that
 * has to be stepped (go.md).
 *
 * The notes have the form that tracers know from SystemTap's user-space probes
 * (section .note.stapsdt, owner "stapsdt", type 3: address, base, semaphore, then
 * provider, name and arguments). Base and semaphore are 0: nobody moves addresses
 * after the link, and a place costs too little to be asked whether it is watched.
 *
 * The call that the kernel puts there pushes onto the stack: this library is
 * compiled without a red zone (Makefile).
 *
 *   place                  first          second        third
 *   launch, other          stream         1: _ptsz      0
 *   copy, fill             stream         1: _ptsz      bytes, 0 unknown
 *   copy_2d, copy_3d       stream         1: _ptsz      address of the CUDA_MEMCPY2D, CUDA_MEMCPY3D
 *   alloc                  address        bytes         0       it has been made
 *   create                 handle         bytes         0       the same, of cuMemCreate
 *   free, release          address        0             0       before the driver is asked
 *   wait_begin             0              0             0       a call that waits for the device
 *   complete               stream         1: _ptsz      1 stream, 2 context, 3 something: known to be done
 *   gate_begin, gate_end   stream         1 gate, 2 bound, 3 greeting     0   a thread is held
 */
#ifndef XMSCHED_PROBES_H
#define XMSCHED_PROBES_H

#include <stdint.h>

#include "abi.h"

#if defined(__x86_64__)
#define XM_SITE_NOP ".byte 0x0f, 0x1f, 0x44, 0x00, 0x00"
#else
#define XM_SITE_NOP "nop"
#endif

#define XM_SITE_VALUE(x) "nr"((uint64_t)(uintptr_t)(x))

/* The values are where they are: a register, or a number known to the compiler. */
#define XM_SITE(name, first, second, third)                                        \
	__asm__ volatile("990: " XM_SITE_NOP "\n"                                  \
			 ".pushsection .note.stapsdt, \"?\", \"note\"\n"           \
			 ".balign 4\n"                                             \
			 ".4byte 992f - 991f, 994f - 993f, 3\n"                    \
			 "991: .asciz \"stapsdt\"\n"                               \
			 "992: .balign 4\n"                                        \
			 "993: .8byte 990b, 0, 0\n"                                \
			 ".asciz \"xmsched\"\n"                                    \
			 ".asciz \"" #name "\"\n"                                  \
			 ".asciz \"8@%0 8@%1 8@%2\"\n"                             \
			 "994: .balign 4\n"                                        \
			 ".popsection"                                             \
			 :                                                         \
			 : XM_SITE_VALUE(first), XM_SITE_VALUE(second), XM_SITE_VALUE(third))

/* The driver's answer to a call that allocates, on its way to the program. */
static inline CUresult xm_site_made(CUresult result, const CUdeviceptr *at, uint64_t bytes)
{
	if (result == CUDA_SUCCESS && at)
		XM_SITE(alloc, *at, bytes, 0);
	return result;
}

#endif
