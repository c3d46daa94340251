/* Makes every sync of a process take longer, as on another disk: loaded into a server that is measured (LD_PRELOAD).
   SLOW_SYNC_US says by how many microseconds. The sync itself is done as well, and first. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

typedef int (*sync_fn)(int);

static int slowly(const char *name, int fd) {
    sync_fn sync = (sync_fn)dlsym(RTLD_NEXT, name);
    const char *text = getenv("SLOW_SYNC_US");
    long us = text ? atol(text) : 0;
    int done = sync(fd);
    struct timespec pause = {us / 1000000, us % 1000000 * 1000};
    while (us > 0 && nanosleep(&pause, &pause) != 0) {
    }
    return done;
}

int fsync(int fd) { return slowly("fsync", fd); }

int fdatasync(int fd) { return slowly("fdatasync", fd); }
