import Glibc
import TestSupport

/// A control group with little memory, whose processes the kernel kills when they need more.
final class MemoryGroup {
  private let path: String

  /// Where groups that have a limit of memory are made, the file that has the limit, and the one that
  /// limits memory and swap together, or swap alone: with swap, no process would be killed.
  private static let kinds = [
    (
      parent: "/sys/fs/cgroup/memory", file: "memory.limit_in_bytes",
      swap: "memory.memsw.limit_in_bytes", hasBoth: true
    ),
    (parent: "/sys/fs/cgroup", file: "memory.max", swap: "memory.swap.max", hasBoth: false),
  ]

  /// Makes a group; nil if this user or this system cannot.
  init?(megabytes: Int) {
    for kind in Self.kinds where Files.exists(kind.parent + "/cgroup.procs") {
      let path = "\(kind.parent)/shared-breaker-test-\(getpid())-\(Scene.now())"
      guard unsafe mkdir(path, 0o755) == 0 else { continue }
      func set(_ file: String, to bytes: Int) -> Bool {
        let limit = path + "/" + file
        return Files.exists(limit)
          && (try? Files.overwrite(limit, Array("\(bytes)".utf8))) != nil
      }
      let bytes = megabytes << 20
      if set(kind.file, to: bytes) {
        // A kernel without swap, or without its accounting, has no such file.
        _ = set(kind.swap, to: kind.hasBoth ? bytes : 0)
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
