internal import Glibc

/// The programs that were built with the tests.
package enum BuiltProducts {
  /// Returns the path of a program, which lies beside the test program.
  package static func path(of program: String) -> String {
    var path = [CChar](repeating: 0, count: 4_096)
    let length = unsafe readlink("/proc/self/exe", &path, path.count - 1)
    let own = path[..<max(0, length)].map { UInt8(bitPattern: $0) }
    let directory = String(decoding: own, as: UTF8.self).split(separator: "/").dropLast()
    return "/" + (directory + [program[...]]).joined(separator: "/")
  }
}
