import BenchShim

/// Calls whose instructions scripts/budgets counts.
enum CountedCalls {
  /// How often calls are counted, because now and then one of them does what has to be done once a second.
  private static let rounds = 3

  /// Counts some calls, and then twice as many, several times over; the first calls of all are not counted.
  ///
  /// The difference of the two is what the calls cost without the loop's beginning and end.
  static func run(_ load: Load, in room: Room, count: Int) throws {
    let loop = try load.loop(in: room)
    try loop(2 * count)
    for _ in 0..<rounds {
      for count in [count, 2 * count] {
        let calls = Calls(loop, count)
        unsafe sb_counted(
          { context in
            guard let context = unsafe context else { return }
            unsafe Unmanaged<Calls>.fromOpaque(context).takeUnretainedValue().make()
          }, Unmanaged.passUnretained(calls).toOpaque())
        try calls.result.get()
      }
    }
  }

  /// Calls that C can have made.
  private final class Calls {
    private let loop: Loop
    private let count: Int
    private(set) var result: Result<Void, any Error> = .success(())

    init(_ loop: @escaping Loop, _ count: Int) {
      self.loop = loop
      self.count = count
    }

    func make() { result = Result { try loop(count) } }
  }
}
