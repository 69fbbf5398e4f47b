import Glibc

/// A script without an interpreter line: the system cannot run it, but shells, `env` and `nice` do.
enum BareScript {
  private static let shell = Array("/bin/sh".utf8)
  private static let slash = UInt8(ascii: "/")

  /// The command line that runs the script with a shell; nil if the program is no such script.
  static func commandLine(_ words: [[UInt8]]) -> [[UInt8]]? {
    guard let program = words.first, program != shell,
      let file = places(of: program).first(where: isExecutable), isText(file)
    else { return nil }
    return [shell, Array("--".utf8), file] + words.dropFirst()
  }

  private static func places(of program: [UInt8]) -> [[UInt8]] {
    if program.contains(slash) { return [program] }
    let path = unsafe getenv("PATH").map { text in
      unsafe UnsafeRawBufferPointer(start: text, count: strlen(text)).map { $0 }
    }
    return (path ?? Array("/bin:/usr/bin".utf8))
      .split(separator: UInt8(ascii: ":"), omittingEmptySubsequences: false)
      .map { $0.isEmpty ? program : $0 + [slash] + program }
  }

  private static func isExecutable(_ file: [UInt8]) -> Bool {
    let path = file.map { CChar(bitPattern: $0) } + [0]
    var status = stat()
    guard unsafe stat(path, &status) == 0, status.st_mode & S_IFMT == S_IFREG else { return false }
    return unsafe access(path, X_OK) == 0
  }

  /// Whether the file is text, and not a program for another machine that a shell would misread.
  private static func isText(_ file: [UInt8]) -> Bool {
    let descriptor = unsafe open(file.map { CChar(bitPattern: $0) } + [0], O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return false }
    defer { close(descriptor) }
    var beginning = [UInt8](repeating: 0, count: 128)
    let count = unsafe read(descriptor, &beginning, beginning.count)
    return count >= 0 && !beginning.prefix(count).contains(0)
  }
}
