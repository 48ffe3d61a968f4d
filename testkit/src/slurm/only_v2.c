/*
 * Loaded into a slurmd of the tests on machines that mount controllers of cgroup v1 beside v2. Slurm's plugin for v2 finds
 * them in /proc/PID/cgroup and refuses to start; with this, that file has its line of v2 and no other.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static int names_cgroups(const char *path)
{
	const char *name = path ? strrchr(path, '/') : NULL;

	return name && strncmp(path, "/proc/", 6) == 0 && strcmp(name, "/cgroup") == 0;
}

/* A file in memory with the line of v2 in place of `whole`, which is closed. */
static int line_of_v2(int whole)
{
	FILE *in = fdopen(whole, "r");
	char line[4096];
	int copy = memfd_create("cgroup", MFD_CLOEXEC);

	while (in && copy >= 0 && fgets(line, sizeof line, in))
		if (strncmp(line, "0::", 3) == 0 && write(copy, line, strlen(line)) < 0)
			break;
	if (in)
		fclose(in);
	if (copy >= 0)
		lseek(copy, 0, SEEK_SET);
	return copy;
}

static int opened(const char *path, int flags, va_list rest)
{
	/* The kernel looks at the mode only where a file is made. */
	int makes = (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE;
	unsigned mode = makes ? va_arg(rest, unsigned) : 0;
	int fd = syscall(SYS_openat, AT_FDCWD, path, flags, mode);

	return fd >= 0 && names_cgroups(path) ? line_of_v2(fd) : fd;
}

#define OPEN(name)                           \
	int name(const char *path, int flags, ...) \
	{                                    \
		va_list rest;                \
		va_start(rest, flags);       \
		int fd = opened(path, flags, rest); \
		va_end(rest);                \
		return fd;                   \
	}
OPEN(open)
OPEN(open64)
