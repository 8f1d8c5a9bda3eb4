/* tar_in.h - extraction of an archive, for the built-ins tar-in and copy-in. */
#pragma once

#include "lib/wire/file_msg.h"

/* Extracts the input below an open directory. */
int tar_in_extract(int top, uint64_t max_bytes, uint64_t max_entries, struct file_msg_end *ret,
		   struct err *e) MUST_USE;
