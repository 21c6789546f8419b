#!/bin/sh
# check.sh LIBRARY MAP: what must hold of the built library and no compiler checks.
set -eu
lib=$1 map=$2

fail() {
	echo "check: $1" >&2
	exit 1
}

# It exports the names of the version script, no more and no fewer.
wanted=$(sed -n '/global:/,/local:/s/^ *\([A-Za-z0-9_]*\);$/\1/p' "$map" | sort)
there=$(nm -D --defined-only "$lib" | awk '{print $3}' | sort)
[ "$wanted" = "$there" ] || {
	printf '%s\n' "$wanted" >"$lib.wanted"
	printf '%s\n' "$there" | diff "$lib.wanted" - >&2 || :
	rm -f "$lib.wanted"
	fail "the exported names differ from $map"
}

# dlsym leaves by a jump: the loader must see its caller's return address.
code=$(objdump -d "$lib" --disassemble=dlsym)
case $(uname -m) in
x86_64) echo "$code" | grep -Eq 'jmp +\*' || fail "dlsym does not end in an indirect jump" ;;
aarch64) echo "$code" | grep -Eq '\bbr\b' || fail "dlsym does not end in an indirect branch" ;;
esac

# No constructors: a program without CUDA runs nothing of ours.
if nm "$lib" | grep -Eq ' [tT] .*(_GLOBAL__sub_I|xm_.*constructor)'; then
	fail "the library has a constructor"
fi
