/* host_files.h - the directories, files and links that the host template is made with. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#define HOST_PROGRAMS "opt/cordon/bin" /* last in PATH: names that the machine's /usr lacks */

struct host_dir {
	const char *path; /* relative to the root directory */
	mode_t mode;
	uid_t owner;
};

struct host_file {
	const char *path;
	mode_t mode;
	const char *text;
};

struct host_link {
	const char *path, *target;
};

extern const struct host_dir host_dirs[];
extern const struct host_file host_files[];
extern const struct host_link host_links[];
extern const size_t host_ndirs, host_nfiles, host_nlinks;
