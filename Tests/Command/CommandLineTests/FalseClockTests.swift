import TestSupport
import Testing

/// A process in which a preloaded library answers for the clock, as libfaketime does.
@Suite struct FalseClockTests {
  private static let source = """
    #define _GNU_SOURCE
    #include <sys/syscall.h>
    #include <time.h>
    #include <unistd.h>
    int clock_gettime(clockid_t clock, struct timespec *time) {
      int code = syscall(SYS_clock_gettime, clock, time);
      if (clock == CLOCK_BOOTTIME) time->tv_sec += 1790000000;
      return code;
    }
    """

  private static let compiler = (try? Child.run("/bin/sh", ["-c", "command -v cc"]))?
    .split(separator: "\n").first.map { String($0) }

  private func preloaded(_ cbctl: CommandLineTool) throws -> CommandLineTool {
    let compiler = try #require(Self.compiler)
    let library = cbctl.directory.file("falseclock.so")
    let source = cbctl.directory.file("falseclock.c")
    try Files.write(source, Array(Self.source.utf8))
    _ = try Child.run(compiler, ["-shared", "-fPIC", "-o", library, source])
    var preloaded = cbctl
    preloaded.prefix = "env LD_PRELOAD='\(library)'"
    return preloaded
  }

  @Test(
    .timeLimit(.minutes(60)), .disabled(if: Memory.isWatched, "a sanitizer must be loaded first"),
    .enabled(if: Self.compiler != nil, "needs a C compiler"))
  func `a process with a false boot clock opens a breaker for as long as the others do`() throws {
    let cbctl = try CommandLineTool()
    let misled = try preloaded(cbctl)
    // The breakers before and after it say which times are right, also where the test has a boot
    // clock of its own, which is not the one of the times in a store.
    let tools = [("before", cbctl), ("api", misled), ("after", cbctl)]
    let ends = try tools.map { name, tool in
      let run = try tool("run \(name) --max-failures 1 --open-for 1h -- false")
      #expect(run.code == 1, "\(run.errors)")
      let sql = "SELECT open_until_ns FROM breaker WHERE name = '\(name)'"
      return try #require(Int(try Database.value(cbctl.store, sql)))
    }
    #expect(ends == ends.sorted())
    for tool in [cbctl, misled] { #expect(try tool("check api").code == 75) }
    let doctor = try cbctl("doctor").output
    #expect(doctor.contains("ok    clock"), "\(doctor)")
  }
}
