/* builtin.h - built-ins: programs inside cordon-init, for files, archives, watching, processes and
 * secrets. Started by SPAWN with AGENT_BUILTIN (spawn.c), which daemon/execution/file_op.c and
 * secrets of cordond send.
 *
 * A built-in runs in a child changed to the requested user and directory. It has no other
 * descriptors than 0, 1 and 2: the kernel checks every access with the rights of that user.
 * doc/file-protocol.md has the arguments and records.
 *
 * 	[--within P1:P2:...] [--without P1:P2:...] [--for USER] NAME ARGUMENTS...
 *
 * --within: real paths (absolute, no links in them, "/" for all). Used files must be at or below
 * one of them. --without: and not at or below one of these. --for: the user whose home relative
 * paths and "~" begin in, and who owns new files.
 *
 * 	read PATH OFFSET LENGTH|-1		ENTRY DATA, then the bytes
 * 	write PATH MODE|- OWNER|- FLAGS MAX [METADATA]
 * 						ENTRY. Input: chunks. MODE octal. OWNER
 * 						user[:group]. FLAGS of the letters p (make
 * 						parents), a (append), x (must not exist), z (the
 * 						input is gzip), or -. METADATA: lines key=value,
 * 						all that the file is to have
 * 	stat PATH [nofollow]			ENTRY
 * 	list PATH DEPTH MAX			ENTRY of the directory, ENTRY..., END
 * 	mkdir PATH MODE|- FLAGS			ENTRY. FLAGS of p, x, or -
 * 	move FROM TO [p|-]			ENTRY of the result. p: make parents
 * 	join DEST SOURCE...			ENTRY of DEST. The sources are removed
 * 	remove PATH recursive|-			END
 * 	watch PATH recursive|- [entries|-]	READY, EVENT... until output closes
 * 	tar-out PATH MAX_BYTES			ENTRY of PATH, then a tar to the end of output. Exit
 * 						status 2: some files are left out. 1: incomplete,
 * 						without the tar's end marker
 * 	tar-in PATH MAX_BYTES MAX_ENTRIES	END. Input: chunks
 * 	secrets					READY for each table of secrets on the input
 * 						(secret_table.h), until that ends
 * 	processes				PROCESS..., END
 * 	kill PID SIGNAL				END
 *
 * An ERROR record can come at any point and is the last one. The exit status is 1 then. */
#pragma once

#define BUILTIN_DEPTH_MAX 64
#define BUILTIN_WATCHES_MAX 8192
#define BUILTIN_SOURCES_MAX 256

/* Run the built-in that the arguments name. Return the exit status: 0, 1 (ERROR was the last
 * record, or the output is closed), 2 (see tar-out). Ignores SIGPIPE. Call it once, in a process of
 * its own.
 */
int builtin_main(int argc, char **argv);
