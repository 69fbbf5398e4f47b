internal import Glibc

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
