/* builtin.h - programs that PID 1 has in itself: files, archives, watching, processes.
 *
 * They run in a child that has become the asked user and entered a directory, with 0, 1 and 2 as
 * its only descriptors: the kernel checks every access as that user's. doc/file-protocol.md has the
 * arguments and records.
 *
 *	[--within P1:P2:...] [--without P1:P2:...] [--for USER] NAME ARGUMENTS...
 *
 * --within: real paths (absolute, no links in them, "/" for all); what is touched must lie at or
 * below one of them. --without: nor at or below one of these. --for: whose home relative paths and
 *"~" are in, and the owner of what is made.
 *
 *	read PATH OFFSET LENGTH|-1		ENTRY DATA, then the bytes
 *	write PATH MODE|- OWNER|- FLAGS MAX [METADATA]
 *						ENTRY. Input: chunks. MODE octal; OWNER
 *						user[:group]; FLAGS of the letters p (make
 *						parents), a (append), x (must not exist), z (the
 *						input is gzip), or -. METADATA: lines key=value,
 *						all that the file is to have
 *	stat PATH [nofollow]			ENTRY
 *	list PATH DEPTH MAX			ENTRY of the directory, ENTRY..., END
 *	mkdir PATH MODE|- FLAGS			ENTRY. FLAGS of p, x, or -
 *	move FROM TO [p|-]			ENTRY of the result. p: make parents
 *	join DEST SOURCE...			ENTRY of DEST, made of all the sources, which go
 *	remove PATH recursive|-			END
 *	watch PATH recursive|- [entries|-]	READY, EVENT... until output closes
 *	tar-out PATH MAX_BYTES			ENTRY of PATH, then a tar to the end of output. Exit
 *						status 2: complete but for what cannot be in a tar;
 *						1: broken off, without the tar's end marker
 *	tar-in PATH MAX_BYTES MAX_ENTRIES	END. Input: chunks
 *	secrets					READY for each table of secrets on the input
 *						(secret_table.h), until that ends
 *	processes				PROCESS..., END
 *	kill PID SIGNAL				END
 *
 * Instead of any of it, or in the middle: ERROR, exit status 1. */
#pragma once

#define BUILTIN_DEPTH_MAX 64
#define BUILTIN_WATCHES_MAX 8192
#define BUILTIN_SOURCES_MAX 256

/* Runs the built-in that the arguments name; returns the exit status: 0, 1 (ERROR was the last
 * record, or output is gone), 2 (see tar-out). Ignores SIGPIPE from then on; call it once, in a
 * process of its own. */
int builtin_main(int argc, char **argv);
