"""Changes to settings while brokers run: what AlterConfigs and its incremental form decide.

``operations`` gives the settings that would be stored, ``validation`` says whether they may.
Nothing is stored here.
"""
