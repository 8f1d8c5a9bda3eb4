/* Any text as /proc/<pid>/stat and /proc/<pid>/limits: numbers in range, or refused. */
#include "fuzz.h"

#include "cell/init/base/proc_stat.h"

unsigned long fuzz_accepted;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);
	struct proc_stat p = { 0 };
	uint64_t locks = 99;

	assert(text != NULL);
	if (size > 0)
		memcpy(text, data, size);
	text[size] = '\0';
	if (proc_stat_parse(text, &p)) {
		assert(p.pid > 0 && p.parent >= 0 && p.group >= 0 && p.session >= 0);
		fuzz_accepted++;
	}
	if (proc_stat_parse_limits(text, &locks))
		fuzz_accepted++;
	else
		assert(locks == 99);
	free(text);
	return 0;
}
