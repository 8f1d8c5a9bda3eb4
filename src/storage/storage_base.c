/* storage_base.c - see storage_base.h. */
#include "storage_base.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "storage_jail.h"

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW)

int storage_base_open(uint32_t flags, const char *base, int ret[STORAGE_HOST_MAX], struct err *e)
{
	char path[sizeof(STORAGE_JAIL_TEMPLATES) + STORAGE_BASE_MAX + 1];

	for (unsigned i = 0; i < STORAGE_HOST_MAX; i++)
		ret[i] = -1;
	for (unsigned i = 0; flags == STORAGE_FOLD_HOST && i < STORAGE_HOST_MAX; i++) {
		(void)snprintf(path, sizeof(path), STORAGE_JAIL_HOST "%u", i);
		ret[i] = open(path, DIR_FLAGS | O_CLOEXEC);
	}
	if (flags == STORAGE_FOLD_DIR) {
		(void)snprintf(path, sizeof(path), STORAGE_JAIL_TEMPLATES "/%s", base);
		ret[0] = open(path, DIR_FLAGS | O_CLOEXEC);
	}
	if (flags != STORAGE_FOLD_BOTTOM && ret[0] < 0)
		return err_sys(e, "open what is below the layers");
	return 0;
}
