# A program that looks at the records of its commands, and what hands it the library's table.
.PHONY: records
records: $(OUT)/records/records_run $(OUT)/records/libxagent.so
$(OUT)/records:
	@mkdir -p $@

$(OUT)/records/%_run: testdata/%_run.c testdata/records.h testdata/want.h commands.h $(SIM)/libcuda.so.1 Makefile records.mk | $(OUT)/records
	$(CC) $(CFLAGS) -Wno-missing-field-initializers -fPIE -I. $< $(SIM)/libcuda.so.1 -ldl -lpthread -o $@

$(OUT)/records/libxagent.so: testdata/reader.c agent.h commands.h Makefile records.mk | $(OUT)/records
	$(CC) $(CFLAGS) -fvisibility=default -shared $< -o $@

# What recording costs a launch; the fake driver's launch does nothing.
$(OUT)/hosts/linked_records: testdata/records.h commands.h records.mk

# Rings and kernels once more, under ThreadSanitizer.
TESTS += $(OUT)/tests/record_ring_tsan
$(OUT)/tests/record_ring_tsan: record_ring_test.c $(wildcard record*.c record*.h) sys.c sys.h records.mk | $(OUT)/tests
	$(CC) $(CFLAGS) -Wno-unused-function -Wno-tsan -fsanitize=thread $< -lpthread -o $@

TESTS += $(OUT)/tests/kernels_tsan
$(OUT)/tests/kernels_tsan: kernels_test.c $(wildcard kernels*.c kernels*.h) record_hash.h records.mk | $(OUT)/tests
	$(CC) $(CFLAGS) -Wno-unused-function -Wno-tsan -fsanitize=thread $< -lpthread -o $@
