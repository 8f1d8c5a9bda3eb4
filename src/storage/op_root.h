/* op_root.h - makes one root image without a server: for `cordon run`. Called by main.c. */
#pragma once

/* word: BYTES_MAX and, behind a colon each, the names of places in "/". Descriptor 3 is the image,
 * empty and open for reading and writing. 4 is the directory that becomes "/", and from 5 on there
 * is one for each place. Run with the caller's rights. Return an exit code. Errors are printed.
 */
int image_tool_main(const char *word);
