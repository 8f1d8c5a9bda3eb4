/* lockfile_print.c - reads a lockfile and prints its pins. */
#include "lockfile_print.h"

#include <fcntl.h>
#include <stdio.h>

#include "io.h"
#include "lock_json.h"
#include "show_json.h"

static int read_pins(const char *file, json_t *pins, struct err *e)
{
	OWN_MEM char *text = malloc(LOCK_TEXT_MAX + 2);
	ssize_t n;

	if (text == NULL)
		return err_set(e, ERR_SYSTEM, "out of memory");
	n = io_read_file(AT_FDCWD, file, text, LOCK_TEXT_MAX + 2, e);
	return n < 0 ? -1 : lock_json_add(file, text, (size_t)n, pins, e);
}

int lockfile_print(const char *file, struct err *e)
{
	json_t *pins = json_object(), *whole;
	int r = pins == NULL ? err_set(e, ERR_SYSTEM, "out of memory") : read_pins(file, pins, e);

	whole = r < 0 ? NULL : json_pack("{s:O}", "pins", pins);
	if (whole != NULL)
		show_json(whole, true, stdout);
	json_decref(whole);
	json_decref(pins);
	return r;
}
