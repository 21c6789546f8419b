/* The driver's binary interface as the library sees it. */
#ifndef XM_ABI_H
#define XM_ABI_H

#if __has_include("gen/cuda_abi.h")
#include "gen/cuda_abi.h"
#else
#include "abi_own.h"
#endif

#endif
