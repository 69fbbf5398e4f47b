internal import Glibc
internal import TestShim

/// A directory for one test, which is removed with its contents when the object is released.
package final class TemporaryDirectory: Sendable {
  package let path: String

  package init() throws {
    let room = unsafe getenv("TMPDIR").map { unsafe String(cString: $0) } ?? "/tmp"
    var template = Array("\(room)/shared-breaker-test.XXXXXX".utf8CString)
    guard unsafe mkdtemp(&template) != nil else { throw SupportError("mkdtemp", errno) }
    path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    // Puppets that become another user need access.
    unsafe chmod(path, 0o755)
  }

  deinit { Files.removeAll(path) }

  /// The path of a file in the directory.
  package func file(_ name: String) -> String { "\(path)/\(name)" }

  /// The path of the test's store, in a directory that does not exist yet.
  package var store: String { file("state/breakers.db") }
}

/// The error of a test that cannot get something it needs.
package struct SupportError: Error, CustomStringConvertible {
  package var description: String

  package init(_ description: String) { self.description = description }

  package init(_ call: String, _ code: Int32) {
    description = unsafe "\(call): \(String(cString: strerror(code)))"
  }
}

/// The permissions of a file.
package struct FileAccess: Hashable {
  package var mode: UInt32
  package var user: UInt32
  package var group: UInt32
  package var isRegular: Bool
}

/// Operations on files.
package enum Files {
  package static func removeAll(_ path: String) {
    unsafe ts_remove_all(path)
  }

  /// The number of descriptors that this process has open of files whose path has a prefix.
  package static func openDescriptors(of path: String) -> Int {
    (0..<4_096).count { descriptor in
      var target = [CChar](repeating: 0, count: 4_096)
      let link = "/proc/self/fd/\(descriptor)"
      let length = max(0, unsafe readlink(link, &target, target.count))
      let bytes = target[..<length].map { UInt8(bitPattern: $0) }
      return String(decoding: bytes, as: UTF8.self).hasPrefix(path)
    }
  }

  /// The names of the files in a directory.
  package static func names(in directory: String) -> [String] {
    guard let stream = unsafe opendir(directory) else { return [] }
    defer { unsafe closedir(stream) }
    var names: [String] = []
    while let entry = unsafe readdir(stream) {
      let name = unsafe withUnsafePointer(to: &entry.pointee.d_name) {
        unsafe $0.withMemoryRebound(to: CChar.self, capacity: 256) { unsafe String(cString: $0) }
      }
      names.append(name)
    }
    return names
  }

  package static func exists(_ path: String) -> Bool { unsafe access(path, F_OK) == 0 }

  /// The paths of the files in a directory.
  package static func all(in directory: String) throws -> [String] {
    guard let stream = unsafe opendir(directory) else {
      throw SupportError("opendir \(directory)", errno)
    }
    defer { unsafe closedir(stream) }
    var paths: [String] = []
    while let entry = unsafe readdir(stream) {
      let name = unsafe withUnsafePointer(to: entry.pointee.d_name) { name in
        unsafe name.withMemoryRebound(to: CChar.self, capacity: 256) { unsafe String(cString: $0) }
      }
      if !name.hasPrefix(".") { paths.append("\(directory)/\(name)") }
    }
    return paths.sorted()
  }

  package static func read(_ path: String) throws -> [UInt8] {
    let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { throw SupportError("open \(path)", errno) }
    defer { close(descriptor) }
    var bytes: [UInt8] = []
    while true {
      let chunk = unsafe [UInt8](unsafeUninitializedCapacity: 65_536) { buffer, count in
        count = max(0, unsafe Glibc.read(descriptor, buffer.baseAddress, buffer.count))
      }
      if chunk.isEmpty { return bytes }
      bytes += chunk
    }
  }

  package static func write(_ path: String, _ bytes: [UInt8]) throws {
    let descriptor = unsafe open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o644)
    guard descriptor >= 0 else { throw SupportError("open \(path)", errno) }
    defer { close(descriptor) }
    var rest = bytes[...]
    while !rest.isEmpty {
      let written = unsafe rest.withUnsafeBytes { bytes in
        unsafe Glibc.write(descriptor, bytes.baseAddress, bytes.count)
      }
      guard written > 0 else { throw SupportError("write \(path)", errno) }
      rest = rest.dropFirst(written)
    }
  }

  /// Overwrites the contents of a file in place.
  package static func overwrite(_ path: String, _ bytes: [UInt8]) throws {
    let descriptor = unsafe open(path, O_WRONLY | O_CLOEXEC)
    guard descriptor >= 0 else { throw SupportError("open \(path)", errno) }
    defer { close(descriptor) }
    guard unsafe pwrite(descriptor, bytes, bytes.count, 0) == bytes.count else {
      throw SupportError("pwrite \(path)", errno)
    }
  }

  package static func rename(_ from: String, to path: String) throws {
    guard unsafe Glibc.rename(from, path) == 0 else { throw SupportError("rename", errno) }
  }

  package static func makeDirectory(_ path: String, mode: UInt32 = 0o755) throws {
    guard unsafe mkdir(path, mode) == 0 else { throw SupportError("mkdir \(path)", errno) }
  }

  package static func changeMode(_ path: String, to mode: UInt32) throws {
    guard unsafe chmod(path, mode) == 0 else { throw SupportError("chmod \(path)", errno) }
  }

  /// The permission bits of a file, and its owner.
  package static func permissions(of path: String) throws -> FileAccess {
    var status = stat()
    guard unsafe lstat(path, &status) == 0 else { throw SupportError("lstat \(path)", errno) }
    return FileAccess(
      mode: status.st_mode & 0o7777, user: status.st_uid, group: status.st_gid,
      isRegular: status.st_mode & S_IFMT == S_IFREG)
  }

  package static func changeOwner(_ path: String, to user: UInt32) throws {
    guard unsafe chown(path, user, user) == 0 else { throw SupportError("chown \(path)", errno) }
  }

  package static func truncate(_ path: String, to length: Int) throws {
    guard unsafe Glibc.truncate(path, length) == 0 else { throw SupportError("truncate", errno) }
  }

  package static func makeFIFO(_ path: String) throws {
    guard unsafe mkfifo(path, 0o600) == 0 else { throw SupportError("mkfifo", errno) }
  }

  package static func link(_ path: String, to target: String) throws {
    guard unsafe symlink(target, path) == 0 else { throw SupportError("symlink", errno) }
  }
}

/// Whether this process runs as root.
package var isSuperuser: Bool { geteuid() == 0 }

/// Becomes another user with one group, permanently; for a process of its own that runs as root.
package func become(user: UInt32, group: UInt32) throws {
  let code = ts_become(user, group)
  guard code == 0 else { throw SupportError("setuid", code) }
}
