internal import Glibc
internal import TestShim

/// The memory of this process.
package enum Memory {
  /// Whether a sanitizer checks the memory, which makes every allocation slow.
  package static var isWatched: Bool { ts_is_watched() != 0 }

  /// The number of bytes that are allocated and not freed.
  package static var allocatedBytes: Int { Int(ts_allocated_bytes()) }
}

/// The files of which this process has locked pages in memory.
package enum LockedMemory {
  /// Whether this user may lock as much as the library wants to.
  package static var isPossible: Bool {
    var limit = rlimit()
    return unsafe getrlimit(__rlimit_resource_t(8), &limit) == 0 && limit.rlim_cur >= 65_536
  }

  /// Their names without the directory, as smaps lists them (proc_pid_smaps(5)).
  package static var files: Set<String> {
    guard let bytes = try? Files.read("/proc/self/smaps") else { return [] }
    var files: Set<String> = []
    var name = ""
    for line in String(decoding: bytes, as: UTF8.self).split(separator: "\n") {
      let words = line.split(separator: " ")
      if line.first?.isHexDigit == true, words.count > 1, words[0].contains("-") {
        name = words.count > 5 ? String(words[5].split(separator: "/").last ?? "") : ""
      } else if words.first == "VmFlags:", words.contains("lo"), !name.isEmpty {
        files.insert(name)
      }
    }
    return files
  }
}
