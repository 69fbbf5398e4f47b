/// A lock that a process holds on a file, as the kernel lists it (proc_locks(5)).
struct HeldLock {
  var pid: Int32
  var isForWriting: Bool

  /// The first byte of the lock.
  var start: Int64

  /// The locks held on a file by all visible processes; not those that processes are waiting for.
  static func all(on file: FileIdentity) -> [HeldLock] {
    (ProcFile.text("/proc/locks") ?? "").split(separator: "\n").compactMap { line in
      let fields = line.split(separator: " ")
      // By inode alone, because some file systems report another device here than `stat` does.
      guard fields.count >= 8, fields[5].split(separator: ":").last == "\(file.inode)",
        let pid = Int32(fields[4]), let start = Int64(fields[6])
      else { return nil }
      return HeldLock(pid: pid, isForWriting: fields[3] == "WRITE", start: start)
    }
  }
}
