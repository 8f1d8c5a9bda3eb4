/* op_list.c - lists the ids of all layers. Entries with other names are not layers. */
#include <dirent.h>
#include <fcntl.h>
#include <string.h>

#include "io.h"
#include "storage_ops.h"

int op_list(struct storage_run *run, struct err *e)
{
	int layers = storage_ops_open_layers(e), result = 0;
	DIR *d = layers < 0 ? NULL : fdopendir(layers);

	if (d == NULL)
		return layers < 0 ? -1 : err_sys(e, "list the layers");
	for (struct dirent *entry; result == 0 && (entry = readdir(d)) != NULL;)
		if (storage_msg_is_id(entry->d_name, STORAGE_ID_MAX))
			result = io_write_all(run->fds[0], entry->d_name, strlen(entry->d_name) + 1,
					      e);
	(void)closedir(d);
	return result;
}
