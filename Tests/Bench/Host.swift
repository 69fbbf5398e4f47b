import Glibc
import SharedBreaker
import TestSupport

/// A short description of the machine that is measured.
func host() throws -> String {
  let processors = sysconf(Int32(_SC_NPROCESSORS_ONLN))
  let lines = String(decoding: try Files.read("/proc/cpuinfo"), as: UTF8.self).split(
    separator: "\n")
  let model =
    lines.first { $0.hasPrefix("model name") }?
    .split(separator: ":").last.map { $0.drop { $0 == " " } } ?? "processor"
  return "\(processors) x \(model), SQLite \(SharedStore.sqliteVersion)"
}
