import Glibc

/// A part of the program that the fuzzer feeds with bytes, and what must hold for any bytes.
enum FuzzTarget: String, CaseIterable, Sendable {
  case arguments
  case values
  case policy
  case token
  case page
  case database
  case library
  case status

  /// Does what the bytes say, and ends the process if something does not hold.
  func run(_ bytes: [UInt8]) {
    switch self {
    case .arguments: ArgumentsTarget.run(bytes)
    case .values: ValuesTarget.run(bytes)
    case .policy: PolicyTarget.run(bytes)
    case .token: TokenTarget.run(bytes)
    case .page: PageTarget.run(bytes)
    case .database: DatabaseTarget.run(bytes)
    case .library: LibraryTarget.run(bytes)
    case .status: StatusTarget.run(bytes)
    }
  }

  /// The target that the environment names.
  static let chosen: FuzzTarget = {
    let name = unsafe getenv("SHARED_BREAKER_FUZZ").map { unsafe String(cString: $0) } ?? ""
    guard let target = FuzzTarget(rawValue: name) else {
      fatalError("SHARED_BREAKER_FUZZ names no target: \(allCases.map(\.rawValue))")
    }
    return target
  }()
}

/// The function that libFuzzer calls again and again with its bytes.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzOneInput(_ bytes: UnsafePointer<UInt8>?, _ count: Int) -> Int32 {
  let input = unsafe UnsafeBufferPointer(start: bytes, count: count)
  FuzzTarget.chosen.run(unsafe Array(input))
  return 0
}
