import Glibc
import ProgramKit

/// Answers one command after the other until the test closes the pipe.
do {
  // Swift reads its list of arguments from /proc, which some environments do not have.
  let arguments = ThisProcess.arguments().map { String(decoding: $0, as: UTF8.self) }
  let worker = try Worker(PuppetOptions(arguments))
  worker.serve()
} catch {
  Wire.shared.put("error \(error)")
  exit(1)
}
