import Glibc
import TestSupport

/// A control group with little memory, whose processes the kernel kills when they need more.
final class MemoryGroup {
  private let path: String

  /// Where groups that have a limit of memory are made, and the file that has the limit.
  private static let kinds = [
    (parent: "/sys/fs/cgroup/memory", file: "memory.limit_in_bytes"),
    (parent: "/sys/fs/cgroup", file: "memory.max"),
  ]

  /// Makes a group; nil if this user or this system cannot.
  init?(megabytes: Int) {
    for kind in Self.kinds where Files.exists(kind.parent + "/cgroup.procs") {
      let path = "\(kind.parent)/shared-breaker-test-\(getpid())-\(Scene.now())"
      guard unsafe mkdir(path, 0o755) == 0 else { continue }
      let limit = path + "/" + kind.file
      if Files.exists(limit), (try? Files.overwrite(limit, Array("\(megabytes << 20)".utf8))) != nil
      {
        self.path = path
        return
      }
      unsafe rmdir(path)
    }
    return nil
  }

  /// A group can be removed once its last process has been reaped.
  deinit {
    for _ in 0..<1_000 {
      if unsafe rmdir(path) == 0 { return }
      usleep(10_000)
    }
  }

  /// The words before those of a program that is to run in the group.
  var launcher: [String] {
    ["sh", "-ec", "echo 0 >'\(path)/cgroup.procs'\nexec \"$@\"", "sh"]
  }
}
