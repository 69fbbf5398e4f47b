// Debian's static SQLite has full-text search, R-trees, JSON and the like in files of their own, which nothing
// but the functions below refers to. Nothing here uses them, and they would be a twelfth of a wheel.
struct sqlite3;

#define WITHOUT(extension)                                                          \
  __attribute__((visibility("hidden"))) int __wrap_sqlite3##extension(struct sqlite3 *connection) { \
    (void)connection;                                                               \
    return 0;                                                                       \
  }

WITHOUT(Fts3Init)
WITHOUT(Fts5Init)
WITHOUT(RtreeInit)
WITHOUT(DbstatRegister)
WITHOUT(StmtVtabInit)
WITHOUT(JsonTableFunctions)

__attribute__((visibility("hidden"))) void __wrap_sqlite3RegisterJsonFunctions(void) {}
