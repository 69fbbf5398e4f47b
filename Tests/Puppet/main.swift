import Glibc

/// Answers one command after the other until its test lets go of it.
do {
  let worker = try Worker(Options(CommandLine.arguments.dropFirst()))
  while let line = Wire.shared.line() { Wire.shared.put(worker.answer(to: line)) }
} catch {
  Wire.shared.put("error \(error)")
  exit(1)
}
