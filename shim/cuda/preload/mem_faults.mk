# The memory's files together, over a driver that fails on demand, under a clock that
# the test moves.
TESTS += $(OUT)/tests/mem_faults $(OUT)/tests/pool_faults $(OUT)/tests/mem_threads
MEMORY := mem_table.c mem_vmm.c mem_slot.c mem_room.c mem_range.c mem_arena.c mem_alloc.c mem_lock.c mem_touch.c mem_move.c mem_ready.c \
	mem_pool.c mem_pool_which.c mem_pool_piece.c mem_pool_order.c mem_pool_going.c mem_pool_trim.c

$(OUT)/tests/%_faults: testdata/%_faults.c testdata/mem_faults.c testdata/fake_memory.h $(MEMORY) $(wildcard *.h) Makefile mem_faults.mk | $(OUT)/tests
	$(CC) $(CFLAGS) -I. -fsanitize=address,undefined $< $(MEMORY) -Wl,--wrap=pthread_mutex_lock -lpthread -o $@

# gcc 12's thread sanitizer does not start where addresses are more random than that, and knows no fences: none is
# what is tried here.
RACES := $(shell [ "$$(cat /proc/sys/vm/mmap_rnd_bits)" -le 28 ] 2>/dev/null && echo thread || echo address,undefined)

$(OUT)/tests/mem_threads: testdata/mem_threads.c testdata/mem_faults.c testdata/fake_memory.h $(MEMORY) $(wildcard *.h) Makefile mem_faults.mk | $(OUT)/tests
	$(CC) $(CFLAGS) -Wno-tsan -I. -fsanitize=$(RACES) $< $(MEMORY) -Wl,--wrap=pthread_mutex_lock -lpthread -o $@
