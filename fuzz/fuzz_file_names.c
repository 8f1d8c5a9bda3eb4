/* Any bytes as passwd or group: a name that is found is in the text, short enough, and leads back
 * to a number. */
#include "fuzz.h"

#include "cell/init/files/file_names.h"

unsigned long fuzz_accepted;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint32_t ids[] = { 0, 1, 1000, 65534, 4294967294U, 4294967295U };
	char *text = fuzz_copy(data, size);

	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		char name[8];
		uint32_t id;

		if (!file_names_find(text, size, ids[i], name, sizeof(name)))
			continue;
		fuzz_accepted++;
		assert(ids[i] != 4294967295U);
		assert(strlen(name) > 0 && strlen(name) < sizeof(name));
		assert(strchr(name, ':') == NULL && strchr(name, '\n') == NULL);
		assert(file_names_number(text, size, name, &id));
	}
	free(text);
	return 0;
}
