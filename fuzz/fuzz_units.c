/* Any text as any kind of number: what is read is within the bounds and, where there is another way
 * to know, right; what is refused leaves the result alone and says why. */
#include "fuzz.h"

#include <errno.h>

#include "lib/base/units.h"

unsigned long fuzz_accepted;

typedef int reader(const char *text, uint64_t min, uint64_t max, uint64_t *ret, struct err *e);

#define LARGEST (UINT64_MAX - 1) /* a bound above it would let in what does not fit */
#define UNTOUCHED 0x5a5a5a5a5a5a5a5aULL

/* 1 if it was read. */
static int check(reader *read, const char *text, uint64_t min, uint64_t max, uint64_t *ret)
{
	struct err e = { 0 };

	*ret = UNTOUCHED;
	if (read(text, min, max, ret, &e) < 0) {
		assert(*ret == UNTOUCHED && e.code == ERR_INVALID && e.msg[0] == '\'');
		return 0;
	}
	assert(*ret >= min && *ret <= max && e.code == ERR_NONE);
	assert(text[0] >= '0' && text[0] <= '9');
	return 1;
}

/* Formatted and read again it is less by a tenth of its unit at most, which is cut off, not
 * rounded, and counted in 1,024ths. */
static void check_format(uint64_t bytes)
{
	char text[24];
	uint64_t again, unit = 1;

	units_format_bytes(bytes, text, sizeof(text));
	assert(strlen(text) < sizeof(text) - 1);
	if (bytes >= 1ULL << 50)
		return; /* P is for people only */
	assert(check(units_bytes, text, 0, LARGEST, &again));
	while (bytes / unit >= 1024)
		unit *= 1024;
	assert(again <= bytes && bytes - again <= unit / 1024 * 104 + 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size);
	uint64_t value, other, number = 0;

	fuzz_accepted += check(units_time_ms, text, 1, 366ULL * 86400000, &value) ||
			 check(units_millis, text, 10, 1000000, &value);
	if (check(units_count, text, 0, LARGEST, &value)) {
		errno = 0;
		assert(strtoull(text, NULL, 10) == value && errno == 0);
		assert(check(units_count, text, value, value, &other) && other == value);
		assert(value == 0 || !check(units_count, text, 0, value - 1, &other));
		assert(!check(units_count, text, value + 1, LARGEST, &other));
		assert(check(units_bytes, text, 0, LARGEST, &other) && other == value);
		assert(check(units_millis, text, 0, LARGEST, &other) && other == value * 1000);
		assert(check(units_time_ms, text, 0, LARGEST, &other) && other == value * 1000);
	}
	if (check(units_bytes, text, 0, LARGEST, &value)) {
		fuzz_accepted++;
		check_format(value);
		assert(!check(units_bytes, text, value + 1, LARGEST, &other) ||
		       value == UINT64_MAX);
	}
	memcpy(&number, data, size < sizeof(number) ? size : sizeof(number));
	check_format(number);
	free(text);
	return 0;
}
